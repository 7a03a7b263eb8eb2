import type { PanelLook } from '../../services/runtime/platform/metric-list.ts'
import { askFor, type Asked, type Shown } from './metric-query.ts'

type Look = Pick<PanelLook, 'title' | 'width' | 'stat'>

/** A query that does not follow from the definition of a metric. */
type Written = {
  readonly expr: string, readonly legend?: string, readonly unit: string, readonly help: string
}

type Panel = Look & (Shown | Written)
type Section = { readonly title: string, readonly panels: readonly Panel[] }

/** A choice at the top of the page, filled from the values of a label. */
type Variable = { readonly label: string, readonly from: string }

export type Board = {
  /** Also the name of the file. */
  readonly uid: string
  readonly title: string
  readonly description: string
  readonly variables?: readonly Variable[]
  readonly sections: readonly Section[]
}

const COLUMNS = 24
const HEIGHTS = { row: 1, stat: 4, graph: 8 } as const
/** Of Grafana 12. */
const SCHEMA_VERSION = 41
const SOURCE = { type: 'prometheus', uid: '$' + '{datasource}' } as const

/** The dashboard as Grafana reads it. */
export function boardJson (board: Board): object {
  return {
    uid: board.uid,
    title: board.title,
    description: board.description,
    tags: ['verification-jobs'],
    schemaVersion: SCHEMA_VERSION,
    version: 1,
    editable: false,
    graphTooltip: 1,
    timezone: '',
    time: { from: 'now-1h', to: 'now' },
    refresh: '30s',
    annotations: { list: [] },
    links: [{
      title: 'Dashboards', type: 'dashboards', tags: ['verification-jobs'], asDropdown: true,
    }],
    templating: { list: [sourceVariable, ...(board.variables ?? []).map(variableJson)] },
    panels: panelsJson(board.sections),
  }
}

const sourceVariable = {
  name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus', refresh: 1,
}

function variableJson ({ label, from }: Variable): object {
  const query = `label_values(${from}, ${label})`
  return {
    name: label,
    label,
    type: 'query',
    datasource: SOURCE,
    definition: query,
    query: { query, refId: label },
    refresh: 2,
    sort: 1,
    multi: true,
    includeAll: true,
    allValue: '.+',
    current: { text: 'All', value: '$__all' },
  }
}

/** Panels from left to right and top to bottom, each section under its heading. */
function panelsJson (sections: readonly Section[]): readonly object[] {
  const made: object[] = []
  let y = 0
  for (const { title, panels } of sections) {
    const id = made.length + 1
    made.push({
      id, title, type: 'row', collapsed: false, panels: [], gridPos: { x: 0, y, w: COLUMNS, h: 1 },
    })
    y += HEIGHTS.row
    let [x, lowest] = [0, y]
    for (const panel of panels) {
      const { width: w = 8, stat } = panel
      const h = stat === true ? HEIGHTS.stat : HEIGHTS.graph
      if (x + w > COLUMNS) [x, y] = [0, lowest]
      made.push(panelJson(panel, made.length + 1, { x, y, w, h }))
      x += w
      lowest = Math.max(lowest, y + h)
    }
    y = lowest
  }
  return made
}

function panelJson (panel: Panel, id: number, gridPos: object): object {
  const { queries, unit, help } = askPanel(panel)
  const isStat = panel.stat === true
  return {
    id,
    title: panel.title,
    description: help,
    type: isStat ? 'stat' : 'timeseries',
    datasource: SOURCE,
    gridPos,
    targets: queries.map(({ expr, legend }, index) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + index),
      datasource: SOURCE,
      editorMode: 'code',
      expr,
      legendFormat: legend,
      ...isStat && { instant: true },
    })),
    fieldConfig: {
      defaults: { unit, ...!isStat && { min: 0, custom: { fillOpacity: 8, showPoints: 'never' } } },
      overrides: [],
    },
    options: isStat
      ? { reduceOptions: { calcs: ['lastNotNull'] }, colorMode: 'value', graphMode: 'none' }
      : {
          legend: { displayMode: 'table', placement: 'bottom', calcs: ['lastNotNull', 'max'] },
          tooltip: { mode: 'multi', sort: 'desc' },
        },
  }
}

function askPanel (panel: Panel): Asked {
  if (!('expr' in panel)) return askFor(panel)
  const { expr, legend = panel.title, unit, help } = panel
  return { queries: [{ expr, legend }], unit, help }
}
