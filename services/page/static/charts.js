// Draws the charts of a page with Chart.js. Each canvas has its data in an attribute; a table of
// the page has the same numbers, for those who cannot see or hover.
import './chart.umd.min.js'

const { Chart } = globalThis
const root = document.documentElement
const charts = []

const integers = new Intl.NumberFormat('en-US')
const shortDay = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric', month: 'short', timeZone: 'UTC',
})
/** Pixels of the width of a day's name, with space around it. */
const DAY_WIDTH = 64
const compact = new Intl.NumberFormat('en-US', { notation: 'compact' })
const dollars = new Intl.NumberFormat('en-US', {
  style: 'currency', currency: 'USD', minimumFractionDigits: 4,
})
const FORMATS = {
  rows: { whole: number => integers.format(number), axis: number => compact.format(number) },
  usd: { whole: number => dollars.format(number), axis: number => `$${compact.format(number)}` },
}

/** Draws the charts that are new on the page, and forgets those that have left it. */
function drawAll () {
  for (const chart of charts.splice(0)) {
    if (chart.canvas?.isConnected) charts.push(chart)
    else chart.destroy()
  }
  for (const canvas of document.querySelectorAll('canvas[data-chart]')) {
    if (Chart.getChart(canvas) === undefined) charts.push(draw(canvas))
  }
}

function draw (canvas) {
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily
  const { unit, days, series } = JSON.parse(canvas.dataset.chart)
  const { whole, axis } = FORMATS[unit]
  return new Chart(canvas, {
    type: 'bar',
    data: {
      labels: days,
      datasets: series.map(({ name, tone, values }) => ({
        label: name, data: values, tone, backgroundColor: () => color(`--tone-${tone}`),
      })),
    },
    options: {
      animation: false,
      maintainAspectRatio: false,
      interaction: { mode: 'index', intersect: false },
      color: () => color('--text'),
      scales: {
        x: {
          stacked: true,
          grid: { display: false },
          ticks: {
            color: () => color('--text-soft'),
            maxRotation: 0,
            autoSkip: false,
            // Counted from the last day, which is always named.
            callback (value, index) {
              const step = Math.ceil(days.length * DAY_WIDTH / this.chart.width)
              return (days.length - 1 - index) % step === 0
                ? shortDay.format(new Date(days[index]))
                : ''
            },
          },
        },
        y: {
          stacked: true,
          beginAtZero: true,
          title: {
            display: true,
            text: unit === 'usd' ? 'USD' : 'Rows',
            color: () => color('--text-soft'),
          },
          grid: { color: () => color('--line') },
          ticks: {
            color: () => color('--text-soft'),
            callback: axis,
            maxTicksLimit: 6,
            ...unit === 'rows' && { precision: 0 },
          },
        },
      },
      plugins: {
        legend: {
          display: series.length > 1,
          position: 'bottom',
          labels: { boxWidth: 12, boxHeight: 12, color: () => color('--text') },
        },
        tooltip: {
          callbacks: { label: ({ dataset, raw }) => ` ${dataset.label}: ${whole(raw)}` },
        },
      },
    },
  })
}

const color = name => getComputedStyle(root).getPropertyValue(name)

/** Draws in the colors that the page has now. */
function recolor () {
  for (const chart of charts) chart.update()
}

drawAll()
// A script has replaced the content of the page.
document.addEventListener('replaced', drawAll)
new MutationObserver(recolor).observe(root, { attributeFilter: ['data-theme'] })
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolor)
addEventListener('beforeprint', () => {
  for (const chart of charts) chart.resize()
})
