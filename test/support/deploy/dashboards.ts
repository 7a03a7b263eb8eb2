import { globSync, readFileSync } from 'node:fs'

const folder = `${import.meta.dirname}/../../../deploy/grafana/dashboards`

export type GridPosition = {
  readonly x: number, readonly y: number, readonly w: number, readonly h: number
}
type PanelJson = {
  readonly id: number
  readonly type: 'row' | 'stat' | 'timeseries'
  readonly title: string
  readonly description?: string
  readonly gridPos: GridPosition
  readonly targets?: readonly { readonly expr: string, readonly legendFormat: string }[]
  readonly fieldConfig?: { readonly defaults: { readonly unit: string } }
}
export type DashboardJson = {
  readonly uid: string
  readonly title: string
  readonly description: string
  readonly schemaVersion: number
  readonly templating: {
    readonly list: readonly { readonly name: string, readonly type: string }[]
  }
  readonly panels: readonly PanelJson[]
}

/** The dashboards as their files have them, by the name of the file. */
export function dashboardFiles (): ReadonlyMap<string, string> {
  return new Map(globSync('*.json', { cwd: folder }).sort()
    .map(name => [name, readFileSync(`${folder}/${name}`, 'utf8')]))
}

export function dashboards (): readonly DashboardJson[] {
  return [...dashboardFiles().values()].map(text => JSON.parse(text) as DashboardJson)
}

export type PanelQuery = { readonly where: string, readonly expr: string }

/** Every query of every panel, as Grafana sends it with all options chosen and a range of 1 h. */
export function panelQueries (): readonly PanelQuery[] {
  return dashboards().flatMap(({ uid, panels }) => panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => ({
      where: `${uid}: ${title}`,
      expr: expr.replaceAll('$__rate_interval', '1m').replaceAll('$__range', '1h')
        .replace(/\$(stage|service|job)/g, '.+'),
    }))))
}
