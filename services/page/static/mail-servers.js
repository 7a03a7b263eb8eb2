// Refreshes the figures of mail servers while the page is visible and "Live" is checked.
const REFRESH_MS = 5_000
const live = document.getElementById('live')
const announcer = document.getElementById('announcer')
let hasFailed = false

/** Replaces what is in the tables, so that their focus and their scroll position stay. */
async function refresh () {
  const response = await fetch(location.href)
  if (!response.ok || response.redirected) throw new Error(`answered ${response.status}`)
  const page = new DOMParser().parseFromString(await response.text(), 'text/html')
  const parts = [document, page].map(from => from.querySelectorAll('main .hint, main tbody'))
  // The first rows come with the tables around them.
  if (parts[0].length !== parts[1].length) return location.reload()
  parts[0].forEach((part, index) => part.replaceChildren(...parts[1][index].childNodes))
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
