type Rows = readonly (readonly string[])[]

export declare function hasHeader (rows: Rows): boolean
export declare function namesOf (rows: Rows, isHeader: boolean): readonly string[]
export declare function guess (rows: Rows, isHeader: boolean): {
  readonly column: number
  readonly kind: string
  readonly hits: number
}
