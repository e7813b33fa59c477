package main

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"

	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func text(s string) *pb.ContentBlock {
	return &pb.ContentBlock{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: s}}}
}

func picture() *pb.ContentBlock {
	return &pb.ContentBlock{
		Block: &pb.ContentBlock_Image{Image: &pb.ImageContent{Data: redPixel, MimeType: "image/png"}},
	}
}

func sound() *pb.ContentBlock {
	return &pb.ContentBlock{
		Block: &pb.ContentBlock_Audio{Audio: &pb.AudioContent{Data: silence, MimeType: "audio/wav"}},
	}
}

func embedded(contents *pb.ResourceContents) *pb.ContentBlock {
	return &pb.ContentBlock{Block: &pb.ContentBlock_Resource{Resource: &pb.EmbeddedResource{Resource: contents}}}
}

func textContents(uri, mime, s string) *pb.ResourceContents {
	return &pb.ResourceContents{Uri: uri, MimeType: proto.String(mime), Body: &pb.ResourceContents_Text{Text: s}}
}

func blobContents(uri, mime string, data []byte) *pb.ResourceContents {
	return &pb.ResourceContents{Uri: uri, MimeType: proto.String(mime), Body: &pb.ResourceContents_Blob{Blob: data}}
}

// redPixel is a PNG of one red pixel.
var redPixel = func() []byte {
	img := image.NewRGBA(image.Rect(0, 0, 1, 1))
	img.Set(0, 0, color.RGBA{R: 255, A: 255})
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		panic(err) // the image is constant
	}
	return out.Bytes()
}()

// silence is a WAV of 10 ms without sound: 8000 samples per second of 8 bits, where 128 is zero.
var silence = func() []byte {
	const rate, samples = 8000, 80
	out := append([]byte("RIFF"), binary.LittleEndian.AppendUint32(nil, 36+samples)...)
	out = append(out, "WAVEfmt "...)
	out = binary.LittleEndian.AppendUint32(out, 16)   // the length of the format
	out = binary.LittleEndian.AppendUint16(out, 1)    // PCM
	out = binary.LittleEndian.AppendUint16(out, 1)    // channels
	out = binary.LittleEndian.AppendUint32(out, rate) // samples a second
	out = binary.LittleEndian.AppendUint32(out, rate) // bytes a second
	out = binary.LittleEndian.AppendUint16(out, 1)    // bytes a sample
	out = binary.LittleEndian.AppendUint16(out, 8)    // bits a sample
	out = append(out, "data"...)
	out = binary.LittleEndian.AppendUint32(out, samples)
	return append(out, bytes.Repeat([]byte{128}, samples)...)
}()
