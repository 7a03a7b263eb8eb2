import { createServer } from 'node:http'
import { openEngine } from '../../../deploy/local/front/engine.ts'
import { createFront } from '../../../deploy/local/front/server.ts'
import { isSignedIn } from '../../../deploy/local/sign-in.ts'

// The server of the stand-in for the image of ClickHouse: its user and database come from the
// variables of the official image, and only that user may send queries.
const {
  CLICKHOUSE_DB: database = '', CLICKHOUSE_USER: username = '', CLICKHOUSE_PASSWORD: password = '',
  HOST = '0.0.0.0',
} = process.env

const engine = openEngine('/var/lib/clickhouse/engine')
await engine.run({
  sql: `CREATE DATABASE IF NOT EXISTS ${database}`,
  parameters: new Map(),
  settings: new Map(),
  defaultFormat: 'TabSeparated',
})
const front = createFront(engine)
const account = { username, password }
const server = createServer((request, response) => {
  if (request.url === '/ping' || isSignedIn(request, account)) {
    front.emit('request', request, response)
  } else {
    response.writeHead(403, { 'X-ClickHouse-Exception-Code': '516' }).end()
  }
})
server.listen(8123, HOST)

process.once('SIGTERM', () => {
  server.close(() => {
    engine.close().then(() => process.exit(0), () => process.exit(1))
  })
  server.closeIdleConnections()
})
