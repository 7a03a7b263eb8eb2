// Refreshes the figures of a page for operators while it is visible and "Live" is checked.
const EVERY_MS = 2_000
/** Only what is in these is replaced, so that the focus and the scroll positions stay. */
const PARTS = 'main .hint, main tbody, main svg'
const live = document.getElementById('live')
const announcer = document.getElementById('announcer')
let hasFailed = false

// A narrow window starts in the middle of a drawing.
for (const drawing of document.querySelectorAll('.drawing')) {
  drawing.scrollLeft = (drawing.scrollWidth - drawing.clientWidth) / 2
}

setTimeout(async function loop () {
  if (live.checked && document.visibilityState === 'visible') {
    try {
      await refresh()
      hasFailed = false
    } catch {
      if (!hasFailed) announcer.textContent = 'Figures are not updated. Load the page again.'
      hasFailed = true
    }
  }
  setTimeout(loop, EVERY_MS)
}, EVERY_MS)

async function refresh () {
  const response = await fetch(location.href)
  if (!response.ok || response.redirected) throw new Error(`answered ${response.status}`)
  const page = new DOMParser().parseFromString(await response.text(), 'text/html')
  const [shown, fresh] = [document, page].map(from => from.querySelectorAll(PARTS))
  // The first rows come with the tables around them.
  if (shown.length !== fresh.length) return location.reload()
  shown.forEach((part, index) => part.replaceChildren(...fresh[index].childNodes))
}
