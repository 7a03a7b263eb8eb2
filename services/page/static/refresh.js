const live = document.getElementById('live')
const announcer = document.getElementById('announcer')

/** Refreshes figures again and again while the page is visible and "Live" is checked. */
export function keepFresh (everyMs, refresh) {
  let hasFailed = false
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
    setTimeout(loop, everyMs)
  }, everyMs)
}
