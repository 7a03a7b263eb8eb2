// Copies the text of the element that `data-copy` names, and announces it.
for (const button of document.querySelectorAll('[data-copy]')) {
  button.addEventListener('click', async () => {
    const source = document.getElementById(button.dataset.copy)
    const announcer = document.getElementById('announcer')
    try {
      await navigator.clipboard.writeText(source.textContent)
      button.textContent = 'Copied'
      announcer.textContent = 'Copied.'
    } catch {
      getSelection().selectAllChildren(source)
      announcer.textContent = 'Selected. Copy it with the keyboard.'
    }
  })
}
