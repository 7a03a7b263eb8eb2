// Receives webhook events, and verifies their signatures:
//   node_modules/.bin/node deploy/examples/webhook-receiver.ts
// Give its address as "webhook_url" of a job, or create a webhook endpoint with it. The secret is
// that of the local stack, or the whole whsec_... text in WEBHOOK_SECRET, which a webhook endpoint
// shows when it is created; PORT is 8787 when it is not set. A local stack delivers to this
// machine; in production, receivers need HTTPS and a public address.
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { verifyWebhook, type WebhookEvent } from '../../services/client/verify-webhook.ts'

const { WEBHOOK_SECRET, STACK_FILE = '.local/stack.json', PORT = '8787' } = process.env
const secret: string = WEBHOOK_SECRET ??
  JSON.parse(readFileSync(STACK_FILE, 'utf8')).webhookSecret

/**
 * Events may arrive more than once. A real receiver stores the ids for four days, in a database.
 */
const seen = new Set<string>()

/** Answers immediately: the service waits at most 15 s. Queue longer work. */
async function receive (request: IncomingMessage): Promise<number> {
  // The signature is over the raw body, so nothing may parse it before.
  const body = await buffer(request)
  const verified = verifyWebhook({ headers: request.headers, body, secret })
  if (!verified.ok) {
    console.log(`refused: ${verified.reason}`)
    return 400
  }
  const { event } = verified
  if (seen.has(event.id)) return 200
  seen.add(event.id)
  console.log(describe(event))
  return 200
}

function describe (event: WebhookEvent): string {
  if (event.type === 'balance.low') {
    return `${event.type}: ${event.data.availableMicros} micros are left`
  }
  const { id, progressPercent, successRecords, totalRows } = event.data
  return event.type === 'job.progress'
    ? `${event.type}: ${id}, ${progressPercent} %`
    : `${event.type}: ${id}, ${successRecords} of ${totalRows} rows`
}

const server = createServer((request, response) => {
  receive(request)
    .then(status => response.writeHead(status).end())
    .catch(() => response.writeHead(500).end())
})
server.once('error', error => {
  const isInUse = 'code' in error && error.code === 'EADDRINUSE'
  console.error(isInUse ? `port ${PORT} is in use: set PORT to another one` : error.message)
  process.exit(1)
})
server.listen(Number(PORT), '127.0.0.1', () => {
  console.log(`listening at http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
})
