// Refreshes the figures of mail servers.
import { keepFresh } from './refresh.js'

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

keepFresh(5_000, refresh)
