// Writes an animated GIF: a palette, and each picture compressed by LZW.

const MIN_BITS = 8;
const MOST_CODES = 4096;

/** Collects codes, the lowest bit first. */
class Bits {
  constructor() {
    this.bytes = [];
    this.buffer = this.bits = 0;
  }

  put(code, size) {
    this.buffer |= code << this.bits;
    for (this.bits += size; this.bits >= 8; this.bits -= 8) {
      this.bytes.push(this.buffer & 255);
      this.buffer >>>= 8;
    }
  }

  /** All bytes in blocks of at most 255, each with its length; an empty one ends them. */
  blocks() {
    if (this.bits) this.bytes.push(this.buffer & 255);
    const found = [];
    for (let at = 0; at < this.bytes.length; at += 255) {
      const block = this.bytes.slice(at, at + 255);
      found.push(block.length, ...block);
    }
    return [...found, 0];
  }
}

function compressed(pixels) {
  const bits = new Bits();
  const clear = 1 << MIN_BITS;
  let size = MIN_BITS + 1;
  let codes = new Map();
  let next = clear + 2;
  bits.put(clear, size);
  let prefix = pixels[0];
  for (let i = 1; i < pixels.length; i++) {
    const key = (prefix << 8) | pixels[i];
    const known = codes.get(key);
    if (known !== undefined) {
      prefix = known;
      continue;
    }
    bits.put(prefix, size);
    if (next < MOST_CODES) {
      codes.set(key, next);
      if (next === 1 << size) size += 1;
      next += 1;
    } else {
      bits.put(clear, size);
      codes = new Map();
      next = clear + 2;
      size = MIN_BITS + 1;
    }
    prefix = pixels[i];
  }
  bits.put(prefix, size);
  bits.put(clear + 1, size);
  return bits.blocks();
}

const short = (x) => [x & 255, x >> 8];

/**
 * @param {{width: number, height: number, palette: number[][], pictures: Uint8Array[], delay: number}} animation
 *   pictures hold an index into the palette for each pixel; delay is in hundredths of a second
 */
export function encodeGif({ width, height, palette, pictures, delay }) {
  const colours = Array.from({ length: 256 }, (_, i) => palette[i] ?? [0, 0, 0]).flat();
  const parts = [
    [..."GIF89a"].map((letter) => letter.charCodeAt(0)),
    [...short(width), ...short(height), 0xf7, 0, 0],
    colours,
    [0x21, 0xff, 11, ...[..."NETSCAPE2.0"].map((letter) => letter.charCodeAt(0)), 3, 1, 0, 0, 0], // for ever
  ];
  for (const pixels of pictures) {
    parts.push([0x21, 0xf9, 4, 0, ...short(delay), 0, 0], [0x2c, 0, 0, 0, 0, ...short(width), ...short(height), 0, MIN_BITS]);
    parts.push(compressed(pixels));
  }
  return new Blob([...parts, [0x3b]].map((part) => Uint8Array.from(part)), { type: "image/gif" });
}

/** The nearest colour of a palette for each pixel of an RGBA picture. */
export class Palette {
  constructor(colours) {
    this.colours = colours;
    this.known = new Map();
  }

  indices({ data }) {
    const found = new Uint8Array(data.length / 4);
    for (let i = 0; i < found.length; i++) found[i] = this.#nearest(data[4 * i], data[4 * i + 1], data[4 * i + 2]);
    return found;
  }

  #nearest(r, g, b) {
    const key = (r << 16) | (g << 8) | b;
    let best = this.known.get(key);
    if (best !== undefined) return best;
    let least = Infinity;
    this.colours.forEach(([x, y, z], i) => {
      const far = (x - r) ** 2 + (y - g) ** 2 + (z - b) ** 2;
      if (far < least) [least, best] = [far, i];
    });
    this.known.set(key, best);
    return best;
  }
}
