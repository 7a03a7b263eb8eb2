import { tenantOf } from '../accounts/tenant.ts'
import { tableText, unpainted, type Column } from '../platform/text-table.ts'
import { timeOf, usdOf, type Task, type TaskResult } from './options.ts'

type ListedOrganization = {
  readonly id: string
  readonly name: string
  readonly createdAt: string | null
  /** The available live balance. */
  readonly availableUsd: string
  readonly erasedAt: string | null
}

/** All organizations, the oldest first. */
export const listOrganizations: Task = async ({ organizations, wallet }) => ({
  organizations: await Promise.all((await organizations.list()).map(async (
    { id, name, createdAtMs, erasedAtMs = 0 }
  ): Promise<ListedOrganization> => {
    const { availableMicros } = await wallet.balance(tenantOf(id, 'live'))
    return {
      id,
      name,
      createdAt: timeOf(createdAtMs),
      availableUsd: usdOf(availableMicros),
      erasedAt: timeOf(erasedAtMs),
    }
  })),
})

const COLUMNS: readonly Column[] = [
  { title: 'id' }, { title: 'created' }, { title: 'available USD', right: true },
  { title: 'erased' }, { title: 'name' },
]

/** The result of `listOrganizations` as a table. */
export function organizationTable ({ organizations }: TaskResult): string {
  const rows = (organizations as readonly ListedOrganization[]).map(
    ({ id, name, createdAt, availableUsd, erasedAt }) =>
      [id, createdAt ?? '', availableUsd, erasedAt ?? '-', name])
  return tableText(COLUMNS, rows, unpainted)
}
