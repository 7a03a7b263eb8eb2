// Runs before the first paint, so that the page does not flash in other colors.
(() => {
  const root = document.documentElement
  const stored = localStorage.getItem('theme')
  const apply = theme => {
    if (theme === 'light' || theme === 'dark') root.dataset.theme = theme
    else delete root.dataset.theme
  }
  apply(stored)
  // The server renders times in the time zone of the browser, so that they do not change later.
  const { timeZone } = new Intl.DateTimeFormat().resolvedOptions()
  document.cookie = `zone=${encodeURIComponent(timeZone)}; path=/; max-age=31536000; samesite=strict`
  // Paper is light.
  addEventListener('beforeprint', () => apply('light'))
  addEventListener('afterprint', () => apply(localStorage.getItem('theme')))
  document.addEventListener('DOMContentLoaded', () => {
    const select = document.getElementById('theme')
    if (select === null) return
    select.value = root.dataset.theme ?? 'system'
    select.addEventListener('change', () => {
      localStorage.setItem('theme', select.value)
      apply(select.value)
    })
  })
})()
