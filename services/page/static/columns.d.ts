type Rows = readonly (readonly string[])[]

export declare function hasHeader (rows: Rows): boolean
export declare function namesOf (rows: Rows, isHeader: boolean): readonly string[]
export declare function findContacts (rows: Rows, isHeader: boolean): readonly {
  readonly column: number
  readonly kind: 'phone' | 'email'
  readonly hits: number
}[]
export declare function hasNationalNumbers (
  rows: Rows, isHeader: boolean, column: number
): boolean
