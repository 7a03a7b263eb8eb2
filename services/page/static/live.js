// Subscribes to the progress of running jobs. Events contain the elements that changed.
const announcer = document.getElementById('announcer')

const subscribed = new Set()

subscribeAll()
loadParts()

/** Follows the running jobs of the page, also of one that was loaded again. */
function subscribeAll () {
  for (const { dataset: { live } } of document.querySelectorAll('[data-live]')) {
    if (!subscribed.has(live)) subscribe(live)
    subscribed.add(live)
  }
}

/** Loads what takes the server some time, after the rest of the page. */
function loadParts () {
  for (const element of document.querySelectorAll('[data-part]')) {
    loadPart(element).catch(() => {
      element.textContent = 'The results could not be counted. Load the page again.'
    })
  }
}

async function loadPart (element) {
  const response = await fetch(element.dataset.part)
  if (!response.ok) throw new Error(`${element.dataset.part} answered ${response.status}`)
  // The server has escaped all values.
  element.innerHTML = (await response.json()).html
}

function subscribe (url) {
  const source = new EventSource(url)
  source.addEventListener('message', async ({ data }) => {
    const { elements, announcement, done } = JSON.parse(data)
    if (done) source.close()
    // The end of a job changes the whole page, so the page is loaded again.
    if (!done || !await reload()) {
      for (const [id, html] of Object.entries(elements)) replace(id, html)
    }
    if (announcement !== '') announcer.textContent = announcement
  })
  source.addEventListener('error', () => {
    // The browser reconnects, unless the session has ended or the job does not exist.
    if (source.readyState === EventSource.CLOSED) {
      announcer.textContent = 'Live progress has stopped. Load the page again.'
    }
  })
}

function replace (id, html) {
  const { body } = new DOMParser().parseFromString(html, 'text/html')
  const element = document.getElementById(id)
  const hadFocus = element?.contains(document.activeElement)
  element?.replaceWith(body.firstElementChild)
  const focused = hadFocus && document.getElementById(id).querySelector('[tabindex]')
  if (focused) focused.focus({ preventScroll: true })
}

/** Replaces the content of the page without moving the focus; false when it fails. */
async function reload () {
  const response = await fetch(location.href).catch(() => undefined)
  if (response?.ok !== true || response.redirected) return false
  const page = new DOMParser().parseFromString(await response.text(), 'text/html')
  const main = document.getElementById('main')
  const hadFocus = main.contains(document.activeElement)
  const href = document.activeElement?.getAttribute('href')
  main.replaceChildren(...page.getElementById('main').childNodes)
  document.dispatchEvent(new Event('replaced'))
  subscribeAll()
  loadParts()
  if (!hadFocus) return true
  const same = href && main.querySelector(`a[href="${CSS.escape(href)}"]`)
  ;(same || main).focus({ preventScroll: true })
  return true
}
