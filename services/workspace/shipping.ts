import type { AccountRecords } from '../accounts/records.ts'
import type { Shown, Task } from './options.ts'

/** A task that changes accounts: waits until the change is in the topic, and says if it is not. */
export const shipping = (task: Task): Task => async (parts, options) =>
  ({ ...await task(parts, options), ...await shippingNote(parts.accounts) })

/** What is to be said when changes of accounts are in Redis alone after some seconds. */
export async function shippingNote (accounts: Pick<AccountRecords, 'areShipped'>): Promise<Shown> {
  if (await accounts.areShipped()) return {}
  return {
    warning: 'The change is made and in Redis alone so far: if Redis loses its files now, it is ' +
      'lost. The leading ledger ships it to the topic "accounts"; see that one runs.',
  }
}
