/** Escapes text for HTML elements and quoted attributes. */
export function escaped (text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

/**
 * Renders the Markdown that the API description uses as HTML: paragraphs, headings, lists, tables
 * and code. All other text is escaped.
 */
export function markdownHtml (text: string): string {
  return text.trim().split(/\n{2,}/).map(block => blockHtml(block.split('\n'))).join('\n')
}

/** Renders a line: code in backticks, and links. */
export function lineHtml (line: string): string {
  return escaped(line)
    .replace(/`([^`]+)`/g, '<code>$1</code>')
    .replace(/\[([^\]]+)\]\((\/[^)\s]*)\)/g, '<a href="$2">$1</a>')
}

function blockHtml (lines: readonly string[]): string {
  const first = lines[0] ?? ''
  const heading = /^(#{1,4}) (.*)/.exec(first)
  if (heading !== null) return headingHtml(heading, lines.slice(1))
  if (lines.every(line => line.startsWith('|'))) return tableHtml(lines)
  if (lines.every(line => line.startsWith('    '))) return codeHtml(lines)
  if (first.startsWith('- ')) return `<ul>${itemsOf(lines).map(item).join('')}</ul>`
  return `<p>${lineHtml(lines.join(' '))}</p>`
}

function headingHtml ([, marks = '', title = '']: RegExpExecArray, rest: readonly string[]) {
  const tag = `h${Math.max(2, marks.length)}`
  return `<${tag} id="${slugOf(title)}">${lineHtml(title)}</${tag}>` +
    (rest.length === 0 ? '' : blockHtml(rest))
}

/** The anchor of a heading. */
export function slugOf (title: string): string {
  return title.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-').replaceAll(/^-|-$/g, '')
}

const codeHtml = (lines: readonly string[]) =>
  `<pre class="code" tabindex="0"><code>${escaped(lines.map(line => line.slice(4)).join('\n'))}` +
  '</code></pre>'

const item = (text: string) => `<li>${lineHtml(text)}</li>`

/** The items of a list; other lines continue the item before them. */
function itemsOf (lines: readonly string[]): readonly string[] {
  return lines.join('\n').split(/^- /m).slice(1).map(text => text.trim().replace(/\n\s*/g, ' '))
}

function tableHtml (lines: readonly string[]): string {
  const [head = [], , ...rows] = lines.map(cellsOf)
  // A wide table scrolls by itself in a small window, also with the keyboard.
  return `<div class="scroll" tabindex="0" role="group" aria-label="${escaped(head.join(', '))}">` +
    `<table><thead>${rowHtml('th', head)}</thead>` +
    `<tbody>${rows.map(cells => rowHtml('td', cells)).join('')}</tbody></table></div>`
}

function rowHtml (tag: 'th' | 'td', cells: readonly string[]): string {
  return `<tr>${cells.map(cell => `<${tag}>${lineHtml(cell)}</${tag}>`).join('')}</tr>`
}

function cellsOf (line: string): readonly string[] {
  return line.split(/(?<!\\)\|/).slice(1, -1).map(cell => cell.trim().replaceAll('\\|', '|'))
}
