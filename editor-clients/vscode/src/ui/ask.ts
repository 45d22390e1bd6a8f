/**
 * Single questions by quick pick and input box, with step numbers and a way back. Each throws `Dismissed` when the user
 * leaves. Must not: know what is asked.
 */
import * as l10n from "@vscode/l10n";
import * as vscode from "vscode";
import { Dismissed } from "../model/fault";
import { BACK, type Position } from "../model/steps";

export interface Choice<T> extends vscode.QuickPickItem {
  value?: T;
}

interface Frame {
  title: string;
  position?: Position;
}

function frame(input: vscode.QuickInput, { title, position }: Frame): vscode.QuickInputButton[] {
  input.title = title;
  input.ignoreFocusOut = true;
  if (position === undefined) {
    return [];
  }
  input.step = position.step;
  input.totalSteps = position.total;
  return position.canGoBack ? [vscode.QuickInputButtons.Back] : [];
}

/** Shows an input and waits for the first of its answers. */
async function answer<T>(input: vscode.QuickInput, listen: (settle: (value: T) => void) => vscode.Disposable[]): Promise<T> {
  const disposables: vscode.Disposable[] = [];
  try {
    return await new Promise<T>((resolve, reject) => {
      disposables.push(...listen(resolve), input.onDidHide(() => reject(new Dismissed())));
      input.show();
    });
  } finally {
    for (const one of disposables) {
      one.dispose();
    }
    input.dispose();
  }
}

export interface PickOptions<T> extends Frame {
  placeholder: string;
  choices: readonly Choice<T>[];
  /** The choice that Enter takes. */
  active?: T;
  /** What to do when a button of a choice is pressed. */
  onButton?: (choice: Choice<T>) => void;
}

export async function pick<T>(options: PickOptions<T>): Promise<T | typeof BACK> {
  const input = vscode.window.createQuickPick<Choice<T>>();
  input.buttons = frame(input, options);
  input.placeholder = options.placeholder;
  input.matchOnDescription = true;
  input.matchOnDetail = true;
  input.items = options.choices;
  const active = options.choices.find((choice) => choice.value !== undefined && choice.value === options.active);
  if (active !== undefined) {
    input.activeItems = [active];
  }
  return answer<T | typeof BACK>(input, (settle) => [
    input.onDidAccept(() => {
      const chosen = input.selectedItems[0] ?? input.activeItems[0];
      if (chosen?.value !== undefined) {
        settle(chosen.value);
      }
    }),
    input.onDidTriggerButton((button) => button === vscode.QuickInputButtons.Back && settle(BACK)),
    input.onDidTriggerItemButton(({ item }) => options.onButton?.(item)),
  ]);
}

export interface TextOptions extends Frame {
  prompt: string;
  value?: string;
  placeholder?: string;
  /** What is wrong with a text; undefined where nothing is. */
  problem?: (text: string) => string | undefined | Promise<string | undefined>;
  /** A further button, and the text that it brings; undefined leaves the text as it is. */
  button?: { icon: string; tooltip: string; press: () => Promise<string | undefined> };
}

export async function text(options: TextOptions): Promise<string | typeof BACK> {
  const input = vscode.window.createInputBox();
  const button = options.button && { iconPath: new vscode.ThemeIcon(options.button.icon), tooltip: options.button.tooltip };
  input.buttons = [...frame(input, options), ...(button === undefined ? [] : [button])];
  input.prompt = options.prompt;
  input.value = options.value ?? "";
  input.placeholder = options.placeholder ?? "";
  const check = async (typed: string) => options.problem?.(typed);
  return answer<string | typeof BACK>(input, (settle) => [
    input.onDidChangeValue(async (typed) => {
      // Nothing is said about an empty box: nobody has typed yet.
      const problem = typed === "" ? undefined : await check(typed);
      if (input.value === typed) {
        input.validationMessage = problem;
      }
    }),
    input.onDidAccept(async () => {
      const typed = input.value;
      const problem = await check(typed);
      if (problem === undefined) {
        settle(typed);
      } else {
        input.validationMessage = problem;
      }
    }),
    input.onDidTriggerButton(async (pressed) => {
      if (pressed === vscode.QuickInputButtons.Back) {
        settle(BACK);
      } else if (options.button !== undefined) {
        const brought = await options.button.press();
        input.show();
        if (brought !== undefined) {
          input.value = brought;
        }
      }
    }),
  ]);
}

export interface ListOptions extends Frame {
  placeholder: string;
  values: readonly string[];
  required: boolean;
  problem: (text: string) => string | undefined;
}

/** A list of texts: each Enter adds what was typed, Enter on an empty box is done. */
export async function list(options: ListOptions): Promise<string[] | typeof BACK> {
  const input = vscode.window.createQuickPick<Choice<"add" | "done" | number>>();
  input.buttons = frame(input, options);
  input.placeholder = options.placeholder;
  const values = [...options.values];
  const remove = { iconPath: new vscode.ThemeIcon("close"), tooltip: l10n.t("Remove") };
  const draw = () => {
    const typed = input.value;
    const problem = typed === "" ? undefined : options.problem(typed);
    const done = values.length > 0 || !options.required;
    const first: Choice<"add" | "done" | number>[] =
      typed !== ""
        ? [{ label: `$(${problem === undefined ? "add" : "warning"}) ${problem ?? l10n.t("Add “{0}”", typed)}`, alwaysShow: true, value: "add" }]
        : done
          ? [{ label: `$(check) ${values.length === 0 ? l10n.t("None") : l10n.t("Done")}`, alwaysShow: true, value: "done" }]
          : [{ label: `$(info) ${l10n.t("Type a value and press Enter")}`, alwaysShow: true }];
    input.items = [...first, ...values.map((value, index) => ({ label: value, alwaysShow: true, buttons: [remove], value: index }))];
  };
  draw();
  return answer<string[] | typeof BACK>(input, (settle) => [
    input.onDidChangeValue(draw),
    input.onDidAccept(() => {
      const chosen = (input.selectedItems[0] ?? input.activeItems[0])?.value;
      if (chosen === "done") {
        settle(values);
      } else if (chosen === "add" && options.problem(input.value) === undefined) {
        values.push(input.value);
        input.value = "";
        draw();
      }
    }),
    input.onDidTriggerItemButton(({ item }) => {
      if (typeof item.value === "number") {
        values.splice(item.value, 1);
        draw();
      }
    }),
    input.onDidTriggerButton((button) => button === vscode.QuickInputButtons.Back && settle(BACK)),
  ]);
}
