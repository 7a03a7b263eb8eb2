/** Longer names of files are cut. */
const MAX_NAME_CHARACTERS = 100
/** What a path, a header or a file system could understand otherwise. */
const UNSAFE = /[\p{C}\p{Zl}\p{Zp}"*/:<>?\\|]/gu
/** Of a file, also where it says which part of it a job is. */
const ENDING = /\.(?:csv|tsv|txt|xlsx)(?=$| \(\d+ of \d+\)$)/i

/**
 * The header `Content-Disposition` (RFC 6266) of a result file: named after the file that was
 * uploaded, as its sender called it, or else after the job. `end` follows the name: `.csv`.
 */
export function resultDisposition (
  id: string, { upload = '', end }: { readonly upload?: string | undefined, readonly end: string }
): string {
  const stem = upload.normalize('NFC').replace(ENDING, '')
    .replace(UNSAFE, '_').replace(/^[\s.]+|[\s.]+$/g, '')
  if (stem === '') return `attachment; filename="${id}${end}"`
  const name = `${[...stem].slice(0, MAX_NAME_CHARACTERS).join('').toWellFormed()}.verified${end}`
  const ascii = name.normalize('NFKD').replace(/\p{M}/gu, '').replace(/[^ -~]/g, '_')
  // RFC 8187: only these characters stay as they are.
  const encoded = encodeURIComponent(name).replace(/['()]/g, character =>
    `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
  return `attachment; filename="${ascii.replaceAll('%', '_')}"; filename*=UTF-8''${encoded}`
}
