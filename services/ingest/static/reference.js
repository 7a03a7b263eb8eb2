// The page is whole without this; it adds a search, buttons that copy and a mark where one reads.
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)]
  const links = all('nav a')
  const targetOf = link => document.getElementById(decodeURIComponent(link.hash.slice(1)))
  const textOf = link => {
    const target = targetOf(link)
    const whole = target?.closest('section') ?? target
    return `${link.textContent} ${whole?.textContent ?? ''}`.toLowerCase()
  }

  const search = document.getElementById('search')
  search.closest('.search').hidden = false
  const found = document.querySelector('.found')
  let texts
  const show = () => {
    texts ??= links.map(link => [link, textOf(link)])
    const words = search.value.toLowerCase().split(/\s+/).filter(word => word !== '')
    for (const [link, text] of texts) link.hidden = !words.every(word => text.includes(word))
    for (const item of all('nav li').reverse()) {
      item.hidden = all('a', item).every(link => link.hidden)
    }
    const number = links.filter(link => !link.hidden).length
    found.textContent = words.length === 0 ? '' : number === 0 ? 'Nothing found' : `${number} found`
  }
  search.addEventListener('input', show)
  search.addEventListener('keydown', event => {
    const first = links.find(link => !link.hidden)
    if (event.key === 'Enter' && search.value !== '') first?.click()
    if (event.key === 'Escape') search.value = ''
    if (event.key === 'Escape') show()
  })
  document.addEventListener('keydown', event => {
    if (event.key !== '/' || event.target.matches('input, textarea')) return
    event.preventDefault()
    search.focus()
  })

  const inputs = all('.choice input')
  for (const input of inputs) {
    input.addEventListener('change', () => {
      for (const other of inputs) if (other.value === input.value) other.checked = true
    })
  }

  // Browsers let pages write to the clipboard over HTTPS, and on the same machine.
  for (const code of navigator.clipboard === undefined ? [] : all('pre.code')) {
    const button = document.createElement('button')
    button.type = 'button'
    button.className = 'copy'
    button.textContent = 'Copy'
    button.setAttribute('aria-label', `Copy: ${code.getAttribute('aria-label') ?? 'code'}`)
    button.addEventListener('click', async () => {
      await navigator.clipboard.writeText(code.textContent)
      button.textContent = 'Copied'
      setTimeout(() => { button.textContent = 'Copy' }, 1500)
    })
    const frame = document.createElement('div')
    frame.className = 'frame'
    code.replaceWith(frame)
    frame.append(code, button)
  }

  // The list alone is scrolled: in a small window it is part of the page, which must stay.
  const list = document.querySelector('nav')
  const bringIntoView = link => {
    const [place, window] = [link, list].map(element => element.getBoundingClientRect())
    if (place.top < window.top) list.scrollTop += place.top - window.top - 8
    if (place.bottom > window.bottom) list.scrollTop += place.bottom - window.bottom + 8
  }
  const byTarget = new Map(links.map(link => [targetOf(link), link]))
  const mark = new IntersectionObserver(entries => {
    const seen = entries.find(({ isIntersecting }) => isIntersecting)
    if (seen === undefined) return
    for (const link of links) link.removeAttribute('aria-current')
    const link = byTarget.get(seen.target)
    link?.setAttribute('aria-current', 'true')
    if (link !== undefined) bringIntoView(link)
  }, { rootMargin: '0px 0px -75% 0px' })
  for (const target of byTarget.keys()) if (target !== null) mark.observe(target)
})()
