import { init } from 'echarts'
import type { Judgement } from '../judge.ts'
import type { Report } from '../report.ts'
import { cpuPanel } from './cpu-panel.ts'
import { growthPanel } from './growth-panel.ts'
import { limitsPanel } from './limits-panel.ts'
import { memoryPanel } from './memory-panel.ts'
import { WIDTH, type Panel } from './style.ts'

/** What was measured as one SVG, the charts one below the other. */
export function plotPage (report: Report, judgements: readonly Judgement[]): string {
  const { growth, soak } = report
  const panels = [
    limitsPanel(judgements),
    cpuPanel(report),
    growth && growthPanel(growth),
    soak && memoryPanel(soak),
  ]
  return pageOf(panels.filter(panel => panel !== undefined))
}

function pageOf (panels: readonly Panel[]): string {
  let top = 0
  const pieces = panels.map(panel => {
    const piece = svgOf(panel).replace('<svg ', `<svg y="${top}" `)
    top += panel.height
    return piece
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${top}" ` +
      `viewBox="0 0 ${WIDTH} ${top}">`,
    ...pieces,
    '</svg>\n',
  ].join('\n')
}

function svgOf ({ height, option }: Panel): string {
  const chart = init(null, null, { renderer: 'svg', ssr: true, width: WIDTH, height })
  try {
    chart.setOption(option)
    return chart.renderToSVGString()
  } finally {
    chart.dispose()
  }
}
