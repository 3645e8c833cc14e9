/**
 * The version of the program.
 * @module
 */
import manifest from "../../deno.json" with { type: "json" };

/** As in deno.json, for example `0.1.0`. */
export const VERSION: string = manifest.version;
