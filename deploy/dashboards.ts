import { writeGenerated } from './generated.ts'
import { boardJson } from './grafana/board.ts'
import { BOARDS } from './grafana/boards.ts'

writeGenerated('dashboards', 'Generates the dashboards of Grafana from the metric list.',
  new Map(BOARDS.map(board => [
    new URL(`grafana/dashboards/${board.uid}.json`, import.meta.url),
    `${JSON.stringify(boardJson(board), null, 2)}\n`,
  ])))
