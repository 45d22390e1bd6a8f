// A person in front of VS Code: keyboard and mouse in a browser, by what can be read on the screen.
// Must not: know what is tested.
import path from "node:path";
import { eventually, PATIENCE_MS, pause, screenshots, test } from "./harness.mjs";

export class Person {
  constructor(page) {
    this.page = page;
    page.setDefaultTimeout(PATIENCE_MS);
  }

  /** One step of a test; a failure leaves a picture. */
  async step(name, body) {
    if (await test(name, body)) return;
    await this.page.screenshot({ path: path.join(screenshots, `failed-${name.replace(/[^a-z0-9]+/gi, "-")}.png`) });
    await this.page.keyboard.press("Escape"); // a menu or a box that is left open would fail the next step too
  }

  /** A picture, once nothing moves any more. */
  async shot(name, options = {}) {
    await pause(400); // animations of toasts and lists
    await this.page.screenshot({ path: path.join(screenshots, `${name}.png`), ...options });
  }

  toast(text) {
    return this.page.locator(".notification-toast", { hasText: text }).first();
  }

  async press(text, button) {
    await this.toast(text).waitFor();
    await this.toast(text).hover();
    await this.toast(text).getByRole("button", { name: button }).click();
  }

  async closeToasts() {
    await this.command("Notifications: Clear All Notifications");
    await eventually("no toast", async () => (await this.page.locator(".notification-toast").count()) === 0);
  }

  get box() {
    return this.page.locator(".quick-input-widget input.input");
  }

  row(text) {
    return this.page.locator(".quick-input-list .monaco-list-row", { hasText: text }).first();
  }

  /** Whether something comes into sight soon. */
  async comes(locator, timeout = 3000) {
    return locator.waitFor({ state: "visible", timeout }).then(
      () => true,
      () => false,
    );
  }

  /** The palette, with a text in it. A page that is just closing, or a window that is still busy, swallows the key: then
   * it is pressed again, from a place that has the focus for sure. */
  async palette(text) {
    let again = false;
    await eventually(`the palette with ${text}`, async () => {
      if (again) await this.page.locator(".part.statusbar").click({ position: { x: 500, y: 5 }, timeout: 3000 }).catch(() => {});
      again = true;
      await this.page.keyboard.press("Escape");
      await this.page.keyboard.press("F1");
      if (!(await this.comes(this.box))) return false;
      await this.box.fill(text, { timeout: 3000 }).catch(() => {}); // closed again meanwhile
      return (await this.box.inputValue({ timeout: 3000 }).catch(() => "")) === text;
    });
  }

  /** Runs a command of the palette, once it is there. */
  async command(title) {
    await eventually(`the command ${title}`, async () => {
      await this.palette(`>${title}`);
      return this.comes(this.row(title));
    });
    await this.accept();
  }

  /** Runs a command that asks with a list, and chooses from it. A window that changes its focus (a folder is trusted, an
   * extension starts) closes the list: then the command is run again. */
  async pick(title, text) {
    await eventually(`${text} in the list of ${title}`, async () => {
      await this.command(title);
      return this.comes(this.row(text), 15_000);
    });
    await this.row(text).click();
  }

  /** Presses Enter in the box or list that is open, once it hears keys. */
  async accept() {
    await eventually("a box that hears keys", () => this.page.evaluate(() => document.activeElement?.closest(".quick-input-widget") != null));
    await this.page.keyboard.press("Enter");
  }

  /** Presses Enter on the button of a page that has the focus by itself. */
  async acceptIn(frame, button) {
    await eventually(`the focus on ${button}`, () => frame.evaluate((text) => document.hasFocus() && document.activeElement?.textContent?.includes(text), button));
    await this.page.keyboard.press("Enter");
  }

  /** Chooses from a list. */
  async choose(text) {
    await this.row(text).waitFor();
    await this.row(text).click();
  }

  /** Types into the box whose title is given, and presses Enter. */
  async type(title, text) {
    await this.page.locator(".quick-input-widget", { hasText: title }).waitFor();
    // What the box is shown with may arrive after it is there.
    await eventually(`${JSON.stringify(text)} in the box`, async () => {
      await this.box.fill(text);
      await pause(200);
      return (await this.box.inputValue()) === text;
    });
    await this.accept();
  }

  /** A view's row, by what stands in it. */
  tree(view, text) {
    return this.page.locator(`.pane[id="workbench.view.extension.flowdrive"], .pane`, { has: this.page.locator(`.pane-header[aria-label^="${view}"]`) }).locator(".monaco-list-row", { hasText: text });
  }

  /** A webview's frame that shows a text. */
  async frame(text) {
    return eventually(`a page that says ${text}`, async () => {
      for (const frame of this.page.frames()) {
        if (frame === this.page.mainFrame()) continue;
        if ((await frame.locator("body").textContent({ timeout: 500 }).catch(() => ""))?.includes(text)) return frame;
      }
      return undefined;
    });
  }

  statusBar(text) {
    return this.page.locator(".statusbar-item", { hasText: text });
  }
}
