import { Type, type TSchema } from 'typebox'

/** A page of a list: its items, whether others follow, and where the next page begins. */
export const pageOf = <Item extends TSchema, Title extends string>(
  item: Item, { title, cursor = 'after' }: { readonly title: Title, readonly cursor?: string }
) => Type.Object({
  data: Type.Array(item),
  has_more: Type.Boolean({ examples: [false] }),
  next_cursor: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    description: `To be sent as ${cursor}; null on the last page.`,
    examples: [null],
  }),
}, { title })
