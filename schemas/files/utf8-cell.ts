import { isUtf8 } from 'node:buffer'

/** `ß` in Windows-1252; in UTF-8 the first byte of N'Ko letters alone: `Spaß…` is no UTF-8. */
const SHARP_S = 0xdf

/**
 * Whether a cell of a file that is not UTF-8 as a whole is UTF-8 nevertheless: a file that was
 * joined of several, or cut within a character, must not have all its other cells read wrong.
 */
export function isUtf8Cell (bytes: Uint8Array): boolean {
  return isUtf8(bytes) && !bytes.includes(SHARP_S)
}
