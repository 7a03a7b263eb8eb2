import { writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { boardJson } from './grafana/board.ts'
import { BOARDS } from './grafana/boards.ts'

const folder = new URL('./grafana/dashboards/', import.meta.url)

/** The generated dashboards by file name; a test compares them with the files. */
export function dashboardSources (): ReadonlyMap<string, string> {
  return new Map(BOARDS.map(board =>
    [`${board.uid}.json`, `${JSON.stringify(boardJson(board), null, 2)}\n`]))
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  for (const [name, text] of dashboardSources()) writeFileSync(new URL(name, folder), text)
}
