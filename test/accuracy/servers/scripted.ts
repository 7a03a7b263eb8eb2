import { createServer, type Server, type Socket } from 'node:net'

/** Replies of a provider; lines of one reply are separated by line feeds. */
export type Script = {
  readonly greeting?: string
  /** Milliseconds before the greeting. */
  readonly greetingDelayMs?: number
  /** Milliseconds before the reply to a recipient. */
  readonly recipientDelayMs?: number
  readonly extensions?: readonly string[]
  readonly sender?: string
  /** The reply to a recipient; undefined accepts it. `drop` ends the connection. */
  readonly recipient?: (address: string) => string | undefined
}

export type ScriptedServer = {
  readonly host: string
  /** `DATA` and `VRFY` that came, which a probe never sends. */
  readonly forbidden: readonly string[]
  readonly stop: () => Promise<void>
}

const BYE = '221 2.0.0 closing connection'
const EXTENSIONS = ['PIPELINING', 'SIZE 35882577', '8BITMIME', 'ENHANCEDSTATUSCODES', 'SMTPUTF8']

/** A server that speaks as its script, on one address and port. */
export async function startScriptedServer (
  script: Script, { host, port }: { readonly host: string, readonly port: number }
): Promise<ScriptedServer> {
  const sockets = new Set<Socket>()
  const forbidden: string[] = []
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    serve(socket, script, forbidden)
  })
  await listen(server, host, port)
  return {
    host,
    forbidden,
    stop: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise<void>(resolve => { server.close(() => resolve()) })
    },
  }
}

function serve (socket: Socket, script: Script, forbidden: string[]): void {
  const send = (reply: string, delayMs = 0) => {
    if (reply === 'drop') {
      socket.destroy()
      return
    }
    setTimeout(() => {
      socket.write(`${reply.split('\n').join('\r\n')}\r\n`)
      if (reply === BYE) socket.end()
    }, delayMs)
  }
  send(script.greeting ?? '220 mx ESMTP', script.greetingDelayMs)
  let rest = ''
  socket.on('data', (bytes: Buffer) => {
    const lines = (rest + bytes.toString('utf8')).split('\r\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const verb = line.split(/[ :]/, 1)[0]?.toUpperCase() ?? ''
      if (verb === 'DATA' || verb === 'VRFY') forbidden.push(line)
      if (verb === 'RCPT') send(answerRecipient(script, line), script.recipientDelayMs)
      else send(answerCommand(script, verb))
    }
  })
}

function answerRecipient (script: Script, line: string): string {
  const address = /<([^>]*)>/.exec(line)?.[1] ?? ''
  return script.recipient?.(address) ?? '250 2.1.5 OK'
}

function answerCommand ({ extensions = EXTENSIONS, sender }: Script, verb: string): string {
  if (verb === 'EHLO') {
    const all = ['mx at your service', ...extensions]
    return all.map((text, index) => `250${index < all.length - 1 ? '-' : ' '}${text}`).join('\n')
  }
  if (verb === 'MAIL') return sender ?? '250 2.1.0 OK'
  // As Yahoo's users report: every recipient is accepted, and the message then refused.
  if (verb === 'DATA') return '554 delivery error: This user doesn\'t have an account'
  return verb === 'QUIT' ? BYE : '250 2.0.0 OK'
}

async function listen (server: Server, host: string, port: number): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
}
