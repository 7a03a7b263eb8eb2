// Sorts the rows of a table by the column whose heading is pressed; again for the other direction.
const order = new Intl.Collator('en', { numeric: true })

document.addEventListener('click', ({ target }) => {
  const heading = target.closest('th')
  if (heading === null || target.closest('button.sort') === null) return
  const isAscending = heading.getAttribute('aria-sort') !== 'ascending'
  for (const other of heading.parentElement.cells) other.removeAttribute('aria-sort')
  heading.setAttribute('aria-sort', isAscending ? 'ascending' : 'descending')
  const textOf = row => row.cells[heading.cellIndex].textContent.trim()
  const body = heading.closest('table').tBodies[0]
  const rows = [...body.rows].sort((one, other) => order.compare(textOf(one), textOf(other)))
  body.append(...isAscending ? rows : rows.reverse())
})
