import { Command, InvalidArgumentError } from 'commander'
import { mkdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { readAccess } from './access.ts'
import { openEngine } from './front/engine.ts'
import { createFront } from './front/server.ts'

const port = (text: string): number => {
  const value = Number(text)
  if (Number.isInteger(value) && value > 0 && value < 65_536) return value
  throw new InvalidArgumentError('It must be a number from 1 to 65535.')
}

const options = new Command('clickhouse-front')
  .description('Serves the embedded ClickHouse engine over HTTP at 127.0.0.1. Test equipment.')
  .requiredOption('--port <number>', 'port to listen on', port)
  .requiredOption('--data <folder>', 'folder of the engine; one process a folder')
  .option('--access <folder>', 'certificate and accounts: only over TLS, and for its user alone')
  .option('--grants <file>', 'all that may be done: statements GRANT, one a line, without TO')
  .parse()
  .opts<{ port: number, data: string, access?: string, grants?: string }>()

mkdirSync(resolve(options.data), { recursive: true })
const grants = options.grants === undefined
  ? undefined
  : readFileSync(options.grants, 'utf8').trim().split('\n')
const engine = openEngine(resolve(options.data), grants)
const access = options.access === undefined ? undefined : readAccess(options.access)
const server = createFront(engine, access)
server.listen(options.port, '127.0.0.1', () => console.log(`listening on ${options.port}`))

process.once('SIGTERM', () => {
  server.close(() => {
    engine.close().then(() => process.exit(0), () => process.exit(1))
  })
  server.closeIdleConnections()
})
