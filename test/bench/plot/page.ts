import { init } from 'echarts'
import type { LimitCheck } from '../check-limits.ts'
import type { Report } from '../report.ts'
import { limitsPanel } from './limits-panel.ts'
import { cpuPanel, growthPanel, memoryPanel } from './panels.ts'
import { WIDTH, type Panel } from './style.ts'

/** Renders a report as one SVG with the charts below each other. */
export function plotPage (report: Report, limitChecks: readonly LimitCheck[]): string {
  const { growth, soak } = report
  const panels = [
    limitsPanel(limitChecks),
    cpuPanel(report),
    growth && growthPanel(growth),
    soak && memoryPanel(soak),
  ]
  return joinPanels(panels.filter(panel => panel !== undefined))
}

function joinPanels (panels: readonly Panel[]): string {
  let top = 0
  const svgs = panels.map(panel => {
    const svg = renderPanel(panel).replace('<svg ', `<svg y="${top}" `)
    top += panel.height
    return svg
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${top}" ` +
      `viewBox="0 0 ${WIDTH} ${top}">`,
    ...svgs,
    '</svg>\n',
  ].join('\n')
}

function renderPanel ({ height, option }: Panel): string {
  const chart = init(null, null, { renderer: 'svg', ssr: true, width: WIDTH, height })
  try {
    chart.setOption(option)
    return chart.renderToSVGString()
  } finally {
    chart.dispose()
  }
}
