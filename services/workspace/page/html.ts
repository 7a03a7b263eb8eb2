/** Text that is HTML already; everything else is escaped where it is put in. */
export type Html = { readonly html: string }

export type Piece =
  Html | string | number | false | null | undefined | readonly Piece[]

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', '\'': '&#39;',
}

/**
 * A tagged template for HTML. What is put in is escaped for text and quoted attributes alike;
 * lists are joined, and `false`, `null` and `undefined` leave nothing behind.
 */
export function html (texts: TemplateStringsArray, ...pieces: readonly Piece[]): Html {
  const parts = texts.map((text, index) => text + (index < pieces.length ? put(pieces[index]) : ''))
  return { html: parts.join('') }
}

function put (piece: Piece): string {
  if (piece === false || piece === null || piece === undefined) return ''
  if (typeof piece === 'string') return piece.replace(/[&<>"']/g, sign => ESCAPES[sign] ?? sign)
  if (typeof piece === 'number') return String(piece)
  return 'html' in piece ? piece.html : piece.map(put).join('')
}
