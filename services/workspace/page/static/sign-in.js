/* global document, history, location */
// The code of a link stands behind its #, which browsers send to nobody: no log, proxy or preview
// of the address has it. It moves into the form, and out of the address and its history.
const code = location.hash.slice(1)
if (code !== '') {
  document.querySelector('input[name=code]').value = code
  history.replaceState(null, '', location.pathname)
}
