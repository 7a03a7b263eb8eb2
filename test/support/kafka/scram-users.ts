import { pbkdf2Sync, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { int16, int32 } from './proxy-frames.ts'

type Account = { readonly username: string, readonly password: string }

/** Users whom a broker lets sign in by SCRAM-SHA-512: what no client for Node can change. */
export type ScramUsers = {
  readonly add: (account: Account) => Promise<void>
  readonly remove: (account: Account) => Promise<void>
}

const API_KEY = 51
const SHA_512 = 2
const ITERATIONS = 4_096
/** No tagged fields, which end every part of a message of this kind. */
const NO_TAGS = Buffer.of(0)
const NONE = Buffer.of(1)

/** Changes users over an open listener. What Kafka's own tool does takes a Java for each change. */
export function scramUsersOf (broker: string): ScramUsers {
  return {
    add: async ({ username, password }) => {
      const salt = randomBytes(16)
      const salted = pbkdf2Sync(password, salt, ITERATIONS, 64, 'sha512')
      const insertion = [
        compact(Buffer.from(username)), Buffer.of(SHA_512), int32(ITERATIONS), compact(salt),
        compact(salted), NO_TAGS,
      ]
      await alter(broker, [NONE, listOfOne(insertion)])
    },
    remove: async ({ username }) => {
      const deletion = [compact(Buffer.from(username)), Buffer.of(SHA_512), NO_TAGS]
      await alter(broker, [listOfOne(deletion), NONE])
    },
  }
}

/** Asks for one change, whose result must be that of one user and no error. */
async function alter (broker: string, change: readonly Buffer[]): Promise<void> {
  const header = Buffer.concat([int16(API_KEY), int16(0), int32(1), int16(-1), NO_TAGS])
  const request = Buffer.concat([header, ...change, NO_TAGS])
  const [host, port] = broker.split(':')
  const socket = connect(Number(port), host)
  socket.write(Buffer.concat([int32(request.length), request]))
  let answer = Buffer.alloc(0)
  while (answer.length < 4 || answer.length < 4 + answer.readInt32BE(0)) {
    const [chunk] = await once(socket, 'data') as [Buffer]
    answer = Buffer.concat([answer, chunk])
  }
  socket.destroy()
  // Length, id, tags, the time it was held back and the number of users; then name and code.
  const results = 4 + 4 + 1 + 4
  const code = answer.readInt16BE(results + 1 + (answer[results + 1] ?? 0))
  if (code !== 0) throw new Error(`the broker refused to change a user: error ${code}`)
}

/** Bytes with their length, plus one, in front; as one byte, so they must be few. */
const compact = (bytes: Buffer) => Buffer.concat([Buffer.of(bytes.length + 1), bytes])
const listOfOne = (item: readonly Buffer[]) => Buffer.concat([Buffer.of(2), ...item])
