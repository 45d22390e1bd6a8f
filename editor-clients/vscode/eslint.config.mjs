// What the compiler does not see. Promises must be awaited or be marked as not waited for; nothing is `any`.
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist/**", "src/protocol.ts"] },
  {
    files: ["src/**/*.ts"],
    extends: [...tseslint.configs.strictTypeChecked, ...tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/no-misused-promises": ["error", { checksVoidReturn: { arguments: false } }],
      "@typescript-eslint/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
      // A command that has nothing to wait for is a promise like the others.
      "@typescript-eslint/require-await": "off",
      "no-console": "error",
      "max-lines": ["error", 400],
      "no-restricted-imports": "off",
    },
  },
  {
    // The model is kept free of the editor, so that it can be tested without one.
    files: ["src/model/**/*.ts"],
    rules: { "no-restricted-imports": ["error", { paths: ["vscode", "vscode-languageclient/node"], patterns: ["../ui/*", "../commands/*", "../server", "../follower"] }] },
  },
);
