// Uploads a file of entries of contact lists, and shows why it is refused.
const form = document.getElementById('list-file')
const failure = document.getElementById('error')
const announcer = document.getElementById('announcer')

form?.addEventListener('submit', async event => {
  event.preventDefault()
  const { file, action } = form.elements
  const { mode, token } = form.dataset
  const button = form.querySelector('button')
  failure.hidden = true
  button.disabled = true
  form.setAttribute('aria-busy', 'true')
  announcer.textContent = 'Uploading the file.'
  try {
    const answer = await fetch(
      `/${mode}/lists/file?${new URLSearchParams({ action: action.value })}`, {
        method: 'POST',
        headers: { 'content-type': 'text/csv', 'x-form-token': token },
        body: file.files[0],
      })
    const { path, error } = await answer.json()
    if (answer.status === 401) location.assign('/sign-in?notice=signed-out')
    else if (answer.ok) location.assign(path)
    else fail(error.message)
  } catch {
    fail('The service is not reachable. Check the connection and try again.')
  }
  button.disabled = false
  form.removeAttribute('aria-busy')
})

function fail (text) {
  failure.textContent = text
  failure.hidden = false
}
