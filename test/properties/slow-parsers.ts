/** Parsers whose cost does not follow their bytes, which the property must find. */
export const slowParsers: Readonly<Record<string, (bytes: Buffer) => unknown>> = {
  'quadratic in its own code': bytes => {
    let sum = 0
    for (let at = 0; at < bytes.length; at += 8) {
      for (let from = 0; from < at; from += 8) sum += bytes[from] ?? 0
    }
    return sum
  },
  'quadratic in a regular expression': bytes => /a+b/.test(bytes.toString('latin1')),
  'expensive for each byte': bytes => {
    let sum = 0
    for (const byte of bytes) for (let times = 0; times < 100; times++) sum += byte
    return sum
  },
  'padding its result': bytes => Array.from(bytes, () => ','.repeat(100)),
}
