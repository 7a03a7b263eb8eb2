// Refreshes the figures of the pipeline.
import { keepFresh } from './refresh.js'

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

keepFresh(2_000, refresh)
