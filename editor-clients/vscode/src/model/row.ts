/**
 * A row of a tree, free of the editor: what it says, how it looks, what can be done with it.
 * Must not: hold anything that is not data.
 */

/** A theme icon, with a theme colour where it carries meaning. */
export interface Icon {
  id: string;
  color?: string;
}

export interface Row {
  /** Stable while the thing is the same, so that the tree keeps its selection and what is unfolded. */
  id: string;
  label: string;
  description?: string;
  /** Markdown, safe to show as it is. */
  tooltip?: string;
  icon?: Icon;
  /** For menus' `when`. */
  context: string;
  /** What a screen reader says, where the label and the description are not enough. */
  spoken?: string;
  children: "none" | "folded" | "unfolded";
  /** What a click or Enter does. */
  command?: { title: string; command: string; arguments: unknown[] };
}
