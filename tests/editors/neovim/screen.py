"""Turns a terminal's screen, as `tmux capture-pane -e -p` prints it, into a page: screen.py TITLE <screen >page.html

Must not: know what is on the screen.
"""
import html
import re
import sys

BASIC = ["#000000", "#cc4444", "#44aa44", "#c4a000", "#4477cc", "#aa55aa", "#33aaaa", "#cccccc"]
BRIGHT = ["#666666", "#ff6666", "#77dd77", "#ffdd55", "#77aaff", "#dd88dd", "#66dddd", "#ffffff"]


def palette(number):
    """One of the 256 colours."""
    if number < 8:
        return BASIC[number]
    if number < 16:
        return BRIGHT[number - 8]
    if number < 232:
        levels = [0, 95, 135, 175, 215, 255]
        number -= 16
        return "#%02x%02x%02x" % (levels[number // 36], levels[number // 6 % 6], levels[number % 6])
    grey = 8 + 10 * (number - 232)
    return "#%02x%02x%02x" % (grey, grey, grey)


class Style:
    """What the newest escape sequences ask for."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.fg = self.bg = None
        self.bold = self.italic = self.underline = self.reverse = False

    def colour(self, codes):
        kind = codes.pop(0)
        if kind == 5:
            return palette(codes.pop(0))
        red, green, blue = codes[:3]
        del codes[:3]
        return "#%02x%02x%02x" % (red, green, blue)

    def apply(self, text):
        codes = []
        for part in text.split(";"):
            codes.append(int(part.split(":")[0] or 0) if not part.startswith("4:") else 4)
        while codes:
            code = codes.pop(0)
            if code == 0:
                self.reset()
            elif code in (1, 22):
                self.bold = code == 1
            elif code in (3, 23):
                self.italic = code == 3
            elif code in (4, 24):
                self.underline = code == 4
            elif code in (7, 27):
                self.reverse = code == 7
            elif 30 <= code <= 37:
                self.fg = BASIC[code - 30]
            elif 90 <= code <= 97:
                self.fg = BRIGHT[code - 90]
            elif 40 <= code <= 47:
                self.bg = BASIC[code - 40]
            elif 100 <= code <= 107:
                self.bg = BRIGHT[code - 100]
            elif code in (39, 49):
                setattr(self, "fg" if code == 39 else "bg", None)
            elif code in (38, 48):
                setattr(self, "fg" if code == 38 else "bg", self.colour(codes))
            elif code == 58:
                self.colour(codes)

    def css(self):
        fg, bg = self.fg, self.bg
        if self.reverse:
            fg, bg = bg or "var(--bg)", fg or "var(--fg)"
        rules = []
        if fg:
            rules.append("color:" + fg)
        if bg:
            rules.append("background:" + bg)
        if self.bold:
            rules.append("font-weight:bold")
        if self.italic:
            rules.append("font-style:italic")
        if self.underline:
            rules.append("text-decoration:underline")
        return ";".join(rules)


def main():
    style, lines = Style(), []
    for line in sys.stdin.read().split("\n"):
        cells = []
        for escape, text in re.findall(r"(?:\x1b\[([0-9;:]*)m)|([^\x1b]+)", line):
            if text:
                cells.append('<span style="%s">%s</span>' % (style.css(), html.escape(text)))
            else:
                style.apply(escape)
        lines.append("<div>%s</div>" % ("".join(cells) or "&nbsp;"))
    while lines and lines[-1] == "<div>&nbsp;</div>":
        lines.pop()
    print(
        """<!doctype html><meta charset="utf-8"><title>%s</title><style>
:root{--fg:%s;--bg:%s}
body{margin:0;background:var(--bg);color:var(--fg);padding:6px;
font:14px/19px "DejaVu Sans Mono",monospace}div{white-space:pre;height:19px}span{display:inline-block;height:19px;vertical-align:top}
</style>%s"""
        % (html.escape(sys.argv[1]), sys.argv[2], sys.argv[3], "".join(lines))
    )


main()
