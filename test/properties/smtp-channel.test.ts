import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { SmtpChannel } from '../../services/verify/mailboxes/session.ts'
import { listen } from '../support/listen.ts'

const stops: (() => void)[] = []
afterEach(() => { for (const stop of stops.splice(0)) stop() })

const never = new AbortController().signal

/** A channel and the socket at its other end. */
async function pair ({ replyTimeoutMs = 120_000, signal = never } = {}) {
  const server = createServer()
  const port = await listen(server)
  const accepted = once(server, 'connection') as Promise<[Socket]>
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  const [other] = await accepted
  other.on('error', () => {})
  stops.push(() => {
    other.destroy()
    server.close()
  })
  return { channel: new SmtpChannel(socket, { replyTimeoutMs, signal }), other, socket }
}

const heard = async (other: Socket) => String((await once(other, 'data') as [Buffer])[0])

describe('a channel to a mail server', () => {
  it('never sends more than a line', async () => {
    const { channel } = await pair()
    await expect(channel.send('RCPT TO:<a@b.org>\r\nDATA')).rejects.toThrow(RangeError)
  })

  it('ends with a server that sends replies without commands', async () => {
    const { channel, other, socket } = await pair()
    other.write('250 ok\r\n'.repeat(20))
    await expect(channel.send()).rejects.toMatchObject({ kind: 'garbage' })
    expect(socket.destroyed).toBe(true)
  })

  it('reads what was sent before the connection was cut', async () => {
    const { channel, other } = await pair()
    other.end('554 go away\r\n')
    await once(other, 'close')
    expect((await channel.send()).code).toBe(554)
    await expect(channel.send('EHLO a.org')).rejects.toMatchObject({ kind: 'dropped' })
  })

  it('assigns no reply to a later command, except a final one', async () => {
    const { channel, other, socket } = await pair()
    other.write('220 hi\r\n250 too early\r\n')
    await once(socket, 'data')
    await channel.send()
    await expect(channel.send('EHLO a.org')).rejects.toMatchObject({ kind: 'garbage' })
    const closing = await pair()
    closing.other.write('220 hi\r\n421 closing\r\n')
    await once(closing.socket, 'data')
    await closing.channel.send()
    expect((await closing.channel.send('EHLO a.org')).code).toBe(421)
  })

  it('ends with its signal, even one aborted before', async () => {
    const stop = new AbortController()
    const { channel } = await pair({ signal: stop.signal, replyTimeoutMs: 120_000 })
    const answer = channel.send()
    stop.abort()
    await expect(answer).rejects.toMatchObject({ kind: 'timeout' })
    const late = await pair({ signal: AbortSignal.abort() })
    await expect(late.channel.send()).rejects.toMatchObject({ kind: 'timeout' })
  })

  it('rejects plain text injected before encryption', async () => {
    const { channel, other, socket } = await pair()
    other.write('220 go ahead\r\n250 slipped in\r\n')
    await once(socket, 'data')
    await channel.send()
    await channel.startTls('mx.x.org')
    await expect(channel.send('EHLO a.org')).rejects.toMatchObject({ kind: 'garbage' })
  })

  it('sends QUIT and disconnects, even from a silent server', async () => {
    const { channel, other, socket } = await pair()
    other.write('220 hi\r\n')
    await channel.send()
    const bye = heard(other)
    await channel.close()
    expect(await bye).toBe('QUIT\r\n')
    expect(socket.destroyed).toBe(true)
  })

  it('reports no_tls if a server does not answer the handshake', async () => {
    const { channel, other } = await pair({ replyTimeoutMs: 50 })
    other.resume()
    await expect(channel.startTls('mx.x.org')).rejects.toMatchObject({ kind: 'no_tls' })
  })
})
