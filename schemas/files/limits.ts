/** The most columns of a file. */
export const MAX_COLUMNS = 500

/** The most bytes of a line of a file, its quoted line breaks included. */
export const MAX_LINE_BYTES = 65_536
