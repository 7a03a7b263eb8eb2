/** An answer of Redis: texts are bytes, and a failure is a value that is an Error. */
export type Reply = Buffer | number | null | Error | readonly Reply[]

const CR = 13

/** Reads the answers in a stream of bytes (RESP 2), each as soon as all of it is there. */
export function createReplyReader (found: (reply: Reply) => void): (bytes: Buffer) => void {
  let unread: Buffer = Buffer.alloc(0)
  return bytes => {
    unread = unread.length === 0 ? bytes : Buffer.concat([unread, bytes])
    let at = 0
    for (;;) {
      const read = readOne(unread, at)
      if (read === undefined) break
      at = read.end
      found(read.reply)
    }
    unread = unread.subarray(at)
  }
}

type Read = { readonly reply: Reply, readonly end: number }

/** The answer that begins here; undefined while its end has not come. */
function readOne (bytes: Buffer, at: number): Read | undefined {
  const lineEnd = bytes.indexOf(CR, at)
  if (lineEnd < 0 || lineEnd + 2 > bytes.length) return undefined
  const end = lineEnd + 2
  const kind = String.fromCharCode(bytes[at] ?? 0)
  const line = bytes.subarray(at + 1, lineEnd)
  if (kind === '+') return { reply: line, end }
  if (kind === ':') return { reply: Number(line), end }
  if (kind === '-') {
    return { reply: Object.assign(new Error(String(line)), { name: 'ReplyError' }), end }
  }
  const size = Number(line)
  if (size < 0) return { reply: null, end }
  if (kind === '*') return readList(bytes, end, size)
  if (end + size + 2 > bytes.length) return undefined
  return { reply: bytes.subarray(end, end + size), end: end + size + 2 }
}

function readList (bytes: Buffer, at: number, size: number): Read | undefined {
  const list: Reply[] = []
  let end = at
  for (let index = 0; index < size; index++) {
    const read = readOne(bytes, end)
    if (read === undefined) return undefined
    list.push(read.reply)
    end = read.end
  }
  return { reply: list, end }
}
