"""Draws the phases of a move beside the published ones, as one SVG."""

import csv
import os

FOLDER = os.path.dirname(os.path.abspath(__file__))
WIDTH, LEFT, RIGHT = 900, 130, 20
COLOURS = {"source": "#4878a8", "destination": "#d9883b", "other ranks": "#7aa974"}


def published():
    """(side, phase, from, to) in seconds. Its phases follow each other; the tear-down does not
    hold up the job."""
    rows, at = [], 0.0
    with open(os.path.join(FOLDER, "paper_migration_phases.csv")) as file:
        for row in csv.DictReader(file):
            seconds = float(row["ms"]) / 1000
            if "background" in row["phase"]:
                rows.append((row["side"], row["phase"], at, at + seconds, True))
                continue
            rows.append((row["side"], row["phase"], at, at + seconds, False))
            at += seconds
    return rows, at


def text(x, y, content, **style):
    attributes = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in style.items())
    safe = content.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{safe}</text>'


def panel(out, top, title, rows, low, high):
    """One bar a phase, below each other; returns where the panel ends."""
    def place(seconds):
        return LEFT + (WIDTH - LEFT - RIGHT) * (seconds - low) / (high - low)

    out.append(text(10, top + 14, title, font_weight="bold"))
    y = top + 24
    for side, phase, start, end, background in rows:
        colour = COLOURS.get(side, "#888")
        x, width = place(max(start, low)), max(1.5, place(end) - place(max(start, low)))
        opacity = 0.35 if background else 1
        out.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="15" fill="{colour}" '
                   f'opacity="{opacity}"/>')
        out.append(text(LEFT - 8, y + 12, side, text_anchor="end"))
        label = f"{phase}: {(end - start) * 1000:,.0f} ms"
        inside = x + width + 6 + 6.2 * len(label) < WIDTH
        out.append(text(x + width + 5 if inside else x - 5, y + 12, label,
                        text_anchor="start" if inside else "end"))
        y += 19
    out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y + 2}" y2="{y + 2}" stroke="#444"/>')
    step = next(each for each in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
                if (high - low) / each <= 12)
    for i in range(int((high - low) / step + 1.001)):
        x = place(low + i * step)
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y + 2}" y2="{y + 6}" stroke="#444"/>')
        out.append(text(x, y + 18, f"{low + i * step:g} s", text_anchor="middle"))
    return y + 34


def draw(path, title, rows, files):
    """`rows` and `files`: (side, phase, from, to, background) with 0 at the start of the pause."""
    paper, paper_end = published()
    end = max(row[3] for row in rows if not row[4])
    files_end = max((row[3] for row in files), default=0)
    whole = max(paper_end, files_end)
    out = []
    y = panel(out, 6, "The published prototype: 12 GB, a GPU worker, RDMA between two machines", paper, 0, whole)
    if files:
        y = panel(out, y + 6, title + ": by files in tmpfs", files, 0, whole)
    y = panel(out, y + 6, title + ": moved between processes of one machine, on the same scale", rows, 0, whole)
    y = panel(out, y + 6, title + ": the same, enlarged", rows, 0, end * 1.1)
    with open(path, "w") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" '
                   'font-family="sans-serif" font-size="11">'
                   f'<rect width="{WIDTH}" height="{y}" fill="white"/>' + "\n".join(out)
                   + "</svg>\n")
