/**
 * A tree view from nodes and rows. Must not: know what the rows are about.
 */
import * as vscode from "vscode";
import type { Row } from "../model/row";

export interface Source<N> {
  key(node: N): string;
  children(node: N | undefined): N[];
  parent(node: N): N | undefined;
  row(node: N): Row | undefined;
}

export class Tree<N extends object> implements vscode.TreeDataProvider<N>, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<N | undefined>();
  // VS Code knows nodes by identity; ours are made anew each time.
  private known = new Map<string, N>();

  readonly onDidChangeTreeData = this.changed.event;

  constructor(private readonly source: Source<N>) {}

  getChildren(node?: N): N[] {
    return this.source.children(node).map((child) => this.same(child));
  }

  getParent(node: N): N | undefined {
    const above = this.source.parent(node);
    return above && this.same(above);
  }

  getTreeItem(node: N): vscode.TreeItem {
    const row = this.source.row(node);
    if (row === undefined) {
      return new vscode.TreeItem("");
    }
    const state = vscode.TreeItemCollapsibleState;
    const item = new vscode.TreeItem(
      row.label,
      row.children === "none" ? state.None : row.children === "folded" ? state.Collapsed : state.Expanded,
    );
    item.id = row.id;
    item.contextValue = row.context;
    if (row.description !== undefined && row.description !== "") {
      item.description = row.description;
    }
    if (row.tooltip !== undefined) {
      item.tooltip = new vscode.MarkdownString(row.tooltip);
    }
    if (row.icon !== undefined) {
      item.iconPath = new vscode.ThemeIcon(row.icon.id, row.icon.color === undefined ? undefined : new vscode.ThemeColor(row.icon.color));
    }
    if (row.spoken !== undefined) {
      item.accessibilityInformation = { label: row.spoken, role: "treeitem" };
    }
    if (row.command !== undefined) {
      item.command = row.command;
    }
    return item;
  }

  /** Draws everything anew, or one node and what is below it. */
  refresh(node?: N): void {
    if (node === undefined) {
      this.changed.fire(undefined);
      return;
    }
    const shown = this.known.get(this.source.key(node));
    if (shown !== undefined) {
      this.changed.fire(shown);
    }
  }

  /** The node as VS Code knows it. */
  same(node: N): N {
    const id = this.source.key(node);
    const known = this.known.get(id);
    if (known !== undefined) {
      return Object.assign(known, node);
    }
    this.known.set(id, node);
    return node;
  }

  /** Forgets nodes, for a tree that is about something else now. */
  forget(): void {
    this.known = new Map();
  }

  dispose(): void {
    this.changed.dispose();
  }
}
