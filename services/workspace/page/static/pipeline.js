/* global document, fetch, setTimeout */
// Renews the figures of the pipeline as long as somebody looks and has not paused it.
const EVERY_MS = 2_000
const live = document.getElementById('live')
const announcer = document.getElementById('announcer')
let isTold = true

// Where the window is narrow, the middle of the drawing is what to begin with.
const place = document.querySelector('.drawing')
place.scrollLeft = (place.scrollWidth - place.clientWidth) / 2

async function renew () {
  const answer = await fetch('/pipeline/figures')
  if (!answer.ok) throw new Error(`status ${answer.status}`)
  const { texts, tones } = await answer.json()
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
      await renew()
      isTold = true
    } catch {
      if (isTold) announcer.textContent = 'Figures can not be renewed. Load the page again.'
      isTold = false
    }
  }
  setTimeout(loop, EVERY_MS)
}

setTimeout(loop, EVERY_MS)
