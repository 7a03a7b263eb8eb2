import { UsageError } from './command-error.ts'
import { kindsIn, type ContactKind } from './contact-column.ts'
import { factsOf, headOf } from './plan.ts'

type Wish = { readonly column?: string | undefined, readonly delimiter?: string | undefined }

/** What is verified of contacts where nobody says more. */
const USUAL: Readonly<Record<ContactKind, string>> = {
  phone: 'phone-validation', email: 'email-validation',
}

/**
 * The service for a file whose contacts can only be of one kind; the same file gives the same one.
 * Throws UsageError where that cannot be told, and CommandError where the file cannot be read.
 */
export async function serviceFor (file: string, { column, delimiter }: Wish): Promise<string> {
  const head = await headOf(file, await factsOf(file, delimiter))
  const [kind, ...others] = kindsIn(head, column)
  if (kind !== undefined && others.length === 0) return USUAL[kind]
  throw new UsageError('Say with --service what is verified: phone-validation for phone numbers, ' +
    `email-validation for e-mail addresses. The file has ${kind === undefined
      ? 'no column that plausibly holds either.'
      : 'columns of both; --column NAME alone tells it, too.'}`)
}
