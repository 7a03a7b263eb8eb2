// Refreshes the figures of the pipeline while the page is visible and "Live" is checked.
const REFRESH_MS = 2_000
const live = document.getElementById('live')
const announcer = document.getElementById('announcer')
let hasFailed = false

// A narrow window starts in the middle of the drawing.
const drawing = document.querySelector('.drawing')
drawing.scrollLeft = (drawing.scrollWidth - drawing.clientWidth) / 2

async function refresh () {
  const response = await fetch('/pipeline/figures')
  if (!response.ok) throw new Error(`/pipeline/figures answered ${response.status}`)
  const { texts, tones } = await response.json()
  for (const element of document.querySelectorAll('[data-text]')) {
    const text = texts[element.dataset.text]
    if (text !== undefined && element.textContent !== text) element.textContent = text
  }
  for (const [id, tone] of Object.entries(tones)) {
    document.getElementById(id)?.setAttribute('data-tone', tone)
  }
}

async function loop () {
  if (live.checked && document.visibilityState === 'visible') {
    try {
      await refresh()
      hasFailed = false
    } catch {
      if (!hasFailed) announcer.textContent = 'Figures are not updated. Load the page again.'
      hasFailed = true
    }
  }
  setTimeout(loop, REFRESH_MS)
}

setTimeout(loop, REFRESH_MS)
