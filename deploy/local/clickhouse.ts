import { answersOk, type ProcessSpec } from './process.ts'
import type { PartOptions } from './parts.ts'

/** The ClickHouse engine behind its HTTP front, as a process of its own. */
export async function clickhousePart (
  options: PartOptions
): Promise<{ spec: ProcessSpec, url: string }> {
  const port = await options.ports.port('clickhouse')
  const { access } = options
  const account = access?.accounts.clickhouse
  const user = account === undefined ? '' : `${account.username}:${account.password}@`
  const place = `127.0.0.1:${port}`
  const scheme = access === undefined ? 'http' : 'https'
  const front = `${import.meta.dirname}/clickhouse-front.ts`
  return {
    url: `${scheme}://${user}${place}`,
    spec: {
      name: 'clickhouse',
      command: process.execPath,
      args: [
        front, '--port', String(port),
        ...access === undefined ? [] : ['--access', access.folder],
        '--data', `${options.dataDir}/clickhouse`,
      ],
      // Every query in work holds a thread of Node's pool, and files need some as well.
      env: { UV_THREADPOOL_SIZE: '8' },
      dataDir: options.dataDir,
      ready: () => answersOk(`${scheme}://${place}/ping`),
      graceMs: 10_000,
    },
  }
}
