/* global CSS, document, DOMParser, EventSource, fetch, location */
// Follows jobs that run: the server tells which elements changed.
const announcer = document.getElementById('announcer')

for (const place of document.querySelectorAll('[data-live]')) follow(place.dataset.live)

function follow (address) {
  const source = new EventSource(address)
  source.addEventListener('message', async ({ data }) => {
    const { parts, say, done } = JSON.parse(data)
    if (done) source.close()
    // A job that has ended looks otherwise everywhere on the page, so all of it changes at once.
    if (!done || !await renew()) {
      for (const [id, html] of Object.entries(parts)) replace(id, html)
    }
    if (say !== '') announcer.textContent = say
  })
  source.addEventListener('error', () => {
    // The browser tries again by itself, unless the session is over or the job is not there.
    if (source.readyState === EventSource.CLOSED) {
      announcer.textContent = 'Progress is not shown any more. Load the page again.'
    }
  })
}

function replace (id, html) {
  const fresh = new DOMParser().parseFromString(html, 'text/html').body.firstElementChild
  document.getElementById(id)?.replaceWith(fresh)
}

/** Takes the page anew without moving the focus; false when it is not to be had. */
async function renew () {
  const answer = await fetch(location.href).catch(() => undefined)
  if (answer?.ok !== true || answer.redirected) return false
  const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html')
  const main = document.getElementById('main')
  const hadFocus = main.contains(document.activeElement)
  const href = document.activeElement?.getAttribute('href')
  main.replaceChildren(...fresh.getElementById('main').childNodes)
  if (!hadFocus) return true
  const same = href && main.querySelector(`a[href="${CSS.escape(href)}"]`)
  ;(same || main).focus({ preventScroll: true })
  return true
}
