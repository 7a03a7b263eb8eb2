/** The most columns of a file. */
export const MAX_COLUMNS = 500

/** The most bytes of a line of a file, its quoted line breaks included. */
export const MAX_LINE_BYTES = 65_536

/**
 * The most bytes of the names of all columns, as JSON: results as JSON repeat them in every row.
 */
export const MAX_NAMES_BYTES = 32_768
