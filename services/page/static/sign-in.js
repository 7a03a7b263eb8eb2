// Browsers do not send the part of a link behind its #, so the code is in no log and no proxy. This
// moves the code from the address and its history into the form.
const code = location.hash.slice(1)
if (code !== '') {
  document.querySelector('input[name=code]').value = code
  history.replaceState(null, '', location.pathname)
}
